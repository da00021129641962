"""The Celery side: app, task functions, bell, bridge, roles, watchdog, scheduler. Nothing else imports Celery."""
