<?xml version="1.0"?>
<CHANNEL HREF="http://push.example/" LASTMOD="1998-11-20T08:00">
  <TITLE>Push</TITLE>
  <ABSTRACT>It was the future</ABSTRACT>
  <SCHEDULE STARTDATE="1998-01-01"><INTERVALTIME DAY="1" HOUR="2"/></SCHEDULE>
  <ITEM HREF="http://push.example/1"><TITLE>One</TITLE></ITEM>
  <CHANNEL HREF="http://push.example/sub"><ITEM HREF="http://push.example/2"/></CHANNEL>
</CHANNEL>
